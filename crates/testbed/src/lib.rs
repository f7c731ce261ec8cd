//! Throwaway PostgreSQL servers.
