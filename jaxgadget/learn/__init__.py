"""Training of networks: values of histories and ranges, policies, critics and exploiters."""
