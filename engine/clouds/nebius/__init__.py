"""Nebius AI Cloud through its official SDK. Importing this package imports neither the SDK nor gRPC."""
