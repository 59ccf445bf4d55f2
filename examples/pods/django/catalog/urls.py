"""One page."""

from __future__ import annotations

from django.urls import path

from catalog.views import page

urlpatterns = [path("", page)]
