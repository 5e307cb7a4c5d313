import fc from 'fast-check';

const MAX_CHARACTERS = 4_096;
const MAX_DEPTH = 1_500;

/** Numbers that a parser and a writer of IEEE doubles would change. */
const SPECIAL_STRINGS = [
  '9007199254740993',
  '-123456789012345678901234567890',
  '1.0',
  '-0',
  '-0.0',
  '1e400',
  '-1E+400',
  '1e-400',
  '0.1000000000000000055511151231257827',
  '100E-2',
];

const digits = (minLength: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'), minLength, maxLength: 25 });

/** Any number that JSON can write (RFC 8259, 6). */
const numberText = fc.oneof(
  fc.constantFrom(...SPECIAL_STRINGS),
  fc
    .tuple(
      fc.constantFrom('', '-'),
      fc.oneof(fc.constant('0'), fc.tuple(fc.constantFrom(...'123456789'), digits(0)).map(join)),
      fc.oneof(
        fc.constant(''),
        digits(1).map((text) => `.${text}`),
      ),
      fc.oneof(
        fc.constant(''),
        fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-'), digits(1)).map(join),
      ),
    )
    .map(join),
);

/** Pieces of a string as written: plain characters, escapes needed and needless, lone surrogates. */
const stringPiece = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 8 }).map((text) => JSON.stringify(text).slice(1, -1)),
  fc.constantFrom('\\u0041', '\\/', '\\b', '\\u0000', '\\u00e9', '\\uD83D\\uDE00', '\\\\', '\\"'),
  fc.constantFrom('\\ud800', '\\uDFFF', '\u2028', '\ufeff', '\u007f', '😀', '{', '}', '\\":', '[,'),
);
const stringText = fc.array(stringPiece, { maxLength: 5 }).map((pieces) => `"${join(pieces)}"`);

/** Keys that JavaScript's objects treat in a way of their own, and any others; also the same twice. */
const keyText = fc.oneof(
  fc.constantFrom('""', '"__proto__"', '"constructor"', '"10"', '"2"', '"data"', '"d\\u0061ta"'),
  stringText,
);

const leaf = fc
  .oneof(numberText, stringText, fc.constantFrom('true', 'false', 'null'))
  .map((text) => [text]);

/** A value as a list of the texts of its tokens. */
const { object } = fc.letrec<{ value: string[]; object: string[]; array: string[] }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    { arbitrary: leaf, weight: 8 },
    { arbitrary: tie('object'), weight: 8 },
    { arbitrary: tie('array'), weight: 8 },
    { arbitrary: deep(leaf), weight: 1 },
  ),
  object: fc
    .array(fc.tuple(keyText, tie('value')), { maxLength: 5 })
    .map((members) => ['{', ...between(members.map(([key, value]) => [key, ':', ...value])), '}']),
  array: fc
    .array(tie('value'), { maxLength: 4 })
    .map((elements) => ['[', ...between(elements), ']']),
}));

/** Few payloads are deep, and then far deeper than any that are written by hand. */
function deep(inner: fc.Arbitrary<string[]>): fc.Arbitrary<string[]> {
  return fc.tuple(fc.integer({ min: 1, max: MAX_DEPTH }), inner).map(([depth, tokens]) => {
    const open: string[] = Array(depth).fill('[');
    return [...open, ...tokens, ...open.map(() => ']')];
  });
}

const whiteSpace = fc.array(fc.constantFrom('', '', '', ' ', '\n', '\t', ' \r\n  '), {
  minLength: 1,
  maxLength: 30,
});

/** The text of any JSON object that a push takes as its payload, white space between its tokens. */
export const jsonObjectArbitrary: fc.Arbitrary<string> = fc
  .tuple(
    object.filter((tokens) => join(tokens).length <= MAX_CHARACTERS),
    whiteSpace,
  )
  .map(([tokens, spaces]) =>
    join(tokens.map((token, at) => `${spaces[at % spaces.length]}${token}`)),
  );

function between(lists: readonly string[][]): string[] {
  return lists.flatMap((list, at) => (at === 0 ? list : [',', ...list]));
}

function join(texts: readonly string[]): string {
  return texts.join('');
}
