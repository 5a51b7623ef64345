"""Results made visible.

figures   functions that take results and return matplotlib figures
style     the palette and the drawing conventions that all figures share
quantity  how an outcome is called and written
case      one explained episode with everything a reader needs to judge it
words     changes and certificates in sentences
page      one self-contained HTML page about many cases
terminal  the same, shorter, in a terminal
"""
