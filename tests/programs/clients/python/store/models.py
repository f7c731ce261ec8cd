from django.db import models


class Tag(models.Model):
    id = models.BigAutoField(primary_key=True)
    name = models.TextField()


# Its key is what DEFAULT_AUTO_FIELD says.
class Order(models.Model):
    note = models.TextField()
    tags = models.ManyToManyField(Tag)


class Item(models.Model):
    id = models.BigAutoField(primary_key=True)
    order = models.ForeignKey(Order, models.CASCADE)
