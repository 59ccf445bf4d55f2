"""A catalogue in Django, as small as it can be."""
