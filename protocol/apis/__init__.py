"""The APIs, a page each: messages, and one row of all else that is known (`api_page.Api`)."""
