from django.test import TestCase
from store.models import Order


class Keys(TestCase):
    def test_a_database_of_tests_has_snowflake_ids(self):
        self.assertGreater(Order.objects.create(note="new").pk, 2**60)
