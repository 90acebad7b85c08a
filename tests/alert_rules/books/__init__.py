"""The books of stories that the rules are held to."""

from tests.alert_rules.books import evidence, tiers, votes


BOOKS = (tiers.BOOK, votes.BOOK, evidence.BOOK)
