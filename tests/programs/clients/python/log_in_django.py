"""A new user of a project of Django logs in, and asks a question."""

import json
import os

os.environ["DJANGO_SETTINGS_MODULE"] = "polls_settings"
import django

django.setup()
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import timezone
from polls.models import Choice, Question

user = User.objects.create_user(f"user {User.objects.count()}", password="secret")
assert User.objects.get(pk=user.pk) == user
user.groups.add(Group.objects.get_or_create(name="voters")[0])
user.user_permissions.add(Permission.objects.get(codename="add_choice"))
assert Client().login(username=user.username, password="secret")
assert User.objects.get(groups__name="voters", pk=user.pk).has_perm("polls.add_choice")

question = Question.objects.create(question_text="What's new?", pub_date=timezone.now())
choice = Choice.objects.create(question=question, choice_text="Much")
assert Question.objects.get(choice=choice.pk) == question
print(json.dumps({"user": user.pk, "question": question.pk}))
