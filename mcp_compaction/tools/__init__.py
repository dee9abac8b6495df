"""The tools that agents call, whoever runs them: their arguments, their answers, the directive."""
