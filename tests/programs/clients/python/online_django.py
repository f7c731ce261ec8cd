"""Works with orders without end, and prints after each round what has failed."""

import json
import time

import django

django.setup()
from django.db import transaction
from store.models import Item, Order, Tag


def work(number):
    failures = []

    def attempt(part):
        try:
            assert part(), f"{part.__name__} has found something else"
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    def create_in_transaction():
        with transaction.atomic():
            inner = Order.objects.create(note="new")
            Item.objects.create(order=inner)
            return inner.item_set.count() == 1

    old = number % 500 + 1
    order = Order.objects.create(note="new")
    found = Order.objects.filter(pk=order.pk)

    def update_the_old():
        return Order.objects.filter(pk=old).update(note=f"round {number}") == 1

    def find():
        return Order.objects.get(pk=order.pk) == order

    def save():
        order.note = "saved"
        return order.save() or found.get().note == "saved"

    def update():
        return found.update(note="updated") == 1

    def refer():
        items = Item.objects.bulk_create([Item(order=order), Item(order_id=old)])
        return Item.objects.filter(order=order).get() == items[0] and found.filter(item=items[0]).exists()

    def refer_anew():
        return Item.objects.filter(order_id=old).update(order=order) and order.item_set.update(order_id=old)

    def tag():
        order.tags.add(TAG)
        return [*Order.objects.prefetch_related("tags").get(pk=order.pk).tags.all()] == [TAG]

    def delete():
        return order.delete() and not found.exists()

    for part in [create_in_transaction, update_the_old, find, save, update, refer, refer_anew, tag, delete]:
        attempt(part)
    return failures


TAG = Tag.objects.get_or_create(name="new")[0]
number = 0
while True:
    print(json.dumps(work(number)), flush=True)
    time.sleep(0.02)
    number += 1
