from django.db import DataError
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from .models import Choice, NarrowNote, Note, Question


def ask():
    question = Question.objects.create(question_text="What's new?", pub_date=timezone.now())
    Choice.objects.bulk_create(Choice(question=question, choice_text=str(n)) for n in range(3))
    return question


class RolledBack(TestCase):
    def test_objects_are_found_by_their_keys(self):
        question = ask()
        self.assertGreater(question.pk, 1 << 53)
        self.assertEqual(Question.objects.get(pk=question.pk).choice_set.count(), 3)

    def test_a_generic_key_needs_64_bits(self):
        question = ask()
        self.assertEqual(Note.objects.create(about=question).about, question)
        with self.assertRaisesMessage(DataError, "integer out of range"):
            NarrowNote.objects.create(about=question)


class Flushed(TransactionTestCase):
    reset_sequences = True

    def test_a_flush_leaves_nothing(self):
        ask()

    def test_nor_does_another(self):
        self.assertEqual(Question.objects.count(), 0)
        ask()
