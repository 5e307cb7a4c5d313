/** The next token behind white space: a mark, a string, a number or a word (RFC 8259, 2 to 7). */
const TOKEN =
  /[ \t\n\r]*([{}[\],:]|"(?:[^"\\]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y;
const TRAILING_SPACE = /^[ \t\n\r]*$/;

/**
 * The tokens of a JSON text. Numbers stay as they are written; a string is written in one way,
 * whichever escapes it came with. Two texts with the same tokens are the same value, with the same
 * numbers and the same order of keys.
 *
 * @throws when the text has something that is no token.
 */
export function jsonTokens(text: string): string[] {
  const tokens: string[] = [];
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text)?.[1];
    if (found === undefined) break;
    at = TOKEN.lastIndex;
    tokens.push(found.startsWith('"') ? JSON.stringify(JSON.parse(found)) : found);
  }
  if (!TRAILING_SPACE.test(text.slice(at)))
    throw new Error(`no JSON token at ${at}: ${text.slice(at, at + 40)}`);
  return tokens;
}

/** The tokens of an object's member. @throws when the object has none of that name. */
export function tokensOfMember(tokens: readonly string[], name: string): string[] {
  const member = splitParts(tokens).find(([key]) => key === JSON.stringify(name));
  if (member === undefined)
    throw new Error(`no member ${name} in ${tokens.slice(0, 20).join(' ')}`);
  return member.slice(2);
}

/** The tokens of each element of an array. */
export function tokensOfElements(tokens: readonly string[]): string[][] {
  return splitParts(tokens);
}

/** Splits the tokens between the brackets of an object or array at its own commas. */
function splitParts(tokens: readonly string[]): string[][] {
  const parts: string[][] = [];
  let part: string[] = [];
  let depth = 0;
  for (const token of tokens.slice(1, -1)) {
    if (token === ',' && depth === 0) {
      parts.push(part);
      part = [];
      continue;
    }
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    part.push(token);
  }
  return part.length === 0 ? parts : [...parts, part];
}
