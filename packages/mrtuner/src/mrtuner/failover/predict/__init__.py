"""How long a client hangs when its server goes away, case by case."""
