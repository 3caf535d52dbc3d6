"""The paper's experiments: data, partitions, runs, figures and the page that shows them."""
