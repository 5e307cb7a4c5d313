/** Tokens of a JSON text; empty objects and lists are one. */
const TOKEN = /"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}[\],:]/g;

/** Removes the white space between a JSON text's tokens, and changes nothing else. */
export function compactJson(json: string): string {
  return json.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, (_, text: string | undefined) => text ?? '');
}

/** Puts each field and item of a JSON text on a line of its own, and changes nothing else: large numbers stay exact. */
export function indentJson(json: string): string {
  let depth = 0;
  const newLine = () => `\n${'  '.repeat(depth)}`;
  return compactJson(json).replaceAll(TOKEN, (token) => {
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    if (token === '{' || token === '[' || token === ',') return token + newLine();
    if (token === '}' || token === ']') return newLine() + token;
    return token === ':' ? ': ' : token;
  });
}

/** Writes an object of JSON texts. */
export function joinFields(fields: readonly (readonly [name: string, json: string])[]): string {
  return `{${fields.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}
