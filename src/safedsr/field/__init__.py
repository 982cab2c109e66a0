"""What runs where a policy is used: files that need neither safedsr nor JAX, and may be copied one by one."""
