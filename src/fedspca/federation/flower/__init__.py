"""The same primitive between machines: letters carried by Flower, to guards that sit beside the data.

Nothing is imported here: a stock SuperNode starts a new process for every message, and it pays for every import.
"""
