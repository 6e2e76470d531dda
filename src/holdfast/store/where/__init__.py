"""The closed language of ``history list --where`` and ``--sort``: text -> tree -> SQL with bound values (pure)."""
