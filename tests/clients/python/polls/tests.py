from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from .models import Choice, Question


def ask():
    question = Question.objects.create(question_text="What's new?", pub_date=timezone.now())
    Choice.objects.bulk_create(Choice(question=question, choice_text=str(n)) for n in range(3))
    return question


class RolledBack(TestCase):
    def test_objects_are_found_by_their_keys(self):
        question = ask()
        self.assertGreater(question.pk, 1 << 53)
        self.assertEqual(Question.objects.get(pk=question.pk).choice_set.count(), 3)


class Flushed(TransactionTestCase):
    reset_sequences = True

    def test_a_flush_leaves_nothing(self):
        ask()

    def test_nor_does_another(self):
        self.assertEqual(Question.objects.count(), 0)
        ask()
