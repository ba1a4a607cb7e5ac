"""Running a shop with several people: one folder per feature, with its use cases, routes and pages."""
