"""MIL text, the format of `model.mil` in compiled models: reading and printing of programs.

    program(1.3)
    [buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]
    {
        func main<ios18>(tensor<fp32, [1, ?]> x) {
                tensor<fp32, [1, ?]> y = relu(x = x)[name = string("y")];
            } -> (y);
    }

Apple does not document the format. `lexer` splits a text into tokens, `literals` reads types and constants,
`parser` reads programs, and `printer` prints them.
"""

from coremlscope.formats.miltext.parser import parse_program
from coremlscope.formats.miltext.printer import print_program

__all__ = ["parse_program", "print_program"]
