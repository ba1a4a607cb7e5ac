"""What the shop is: its settings, and the page on which the office is set up."""
