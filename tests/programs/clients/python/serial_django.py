"""Objects of the models of `polls`, and their keys."""

import io
import os

os.environ["DJANGO_SETTINGS_MODULE"] = "polls_settings"
import django

django.setup()
from django.core.management import call_command
from django.utils import timezone
from polls.models import Choice, LongQuestion, Question, Tag
from report import report

question = Question.objects.create(question_text="What's new?", pub_date=timezone.now())
choices = Choice.objects.bulk_create(Choice(question=question, choice_text=str(n), votes=n) for n in range(500))
tag = Tag.objects.create(name="news")
tag.questions.add(question)
long = LongQuestion.objects.create(question_text="And?", pub_date=timezone.now(), text="Tell me.")

assert Question.objects.get(pk=question.pk) == question
assert LongQuestion.objects.get(pk=long.pk).question_ptr_id == long.pk
assert question.choice_set.filter(votes__lt=3).count() == 3 and list(question.tags.all()) == [tag]
question.question_text = "What else?"
question.save()
assert Question.objects.filter(question_text="What else?").count() == 1

drift = io.StringIO()
try:
    call_command("makemigrations", "polls", "--check", "--dry-run", stdout=drift)
    drift = io.StringIO()
except SystemExit:
    pass
report({choice.votes: choice.pk for choice in choices}, drift.getvalue())
