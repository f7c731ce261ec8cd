"""Django REST framework sends and reads an order with a foreign key."""

import django

django.setup()
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer

from shop.models import Customer, Order


# recipe
class RelatedField(serializers.PrimaryKeyRelatedField):
    def __init__(self, **kwargs):
        super().__init__(pk_field=serializers.BigIntegerField(), **kwargs)


class OrderSerializer(serializers.ModelSerializer):
    serializer_related_field = RelatedField
    # end

    class Meta:
        model = Order
        fields = ["id", "customer"]


class PlainSerializer(serializers.ModelSerializer):
    class Meta(OrderSerializer.Meta):
        pass


def text(serializer):
    return JSONRenderer().render(serializer.data).decode()


order = Order(id=2125412474722189368, customer=Customer(id=2125412474722189369))
print(text(OrderSerializer(order)))
# Without that field, the foreign key is a number.
assert text(PlainSerializer(order)) == '{"id":"2125412474722189368","customer":2125412474722189369}'
assert OrderSerializer().fields["customer"].pk_field.to_internal_value("2125412474722189369") == 2125412474722189369
