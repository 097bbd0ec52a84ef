"""Layers that several methods share: encoders, adapters, heads, features."""
