from django.db import IntegrityError
from django.test import TestCase

from shop.models import Customer, Order, Tag


class Keys(TestCase):
    def test_every_key_is_a_snowflake_id(self):
        customer = Customer.objects.create(name="Ada")
        order = Order.objects.create(customer=customer)
        tag = Tag.objects.create(name="new")
        order.tags.add(tag)
        for row in [customer, order, tag, order.tags.through.objects.get()]:
            self.assertGreater(row.pk, 2**60, row)

    def test_saving_a_new_object_with_a_key_does_not_update_its_row(self):
        tag = Tag.objects.create(name="new")
        with self.assertRaises(IntegrityError):
            Tag(pk=tag.pk, name="other").save()
