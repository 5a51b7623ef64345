"""What counterplan is compared with: the same problem solved in two other ways."""
