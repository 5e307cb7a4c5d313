import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Fenced block of code in a document. */
export interface CodeBlock {
  /** The nearest heading above it, without marks of Markdown. */
  heading: string;
  /** Position among the blocks under its heading, from 0. */
  nth: number;
  /** The word after the fence; empty if there is none. */
  language: string;
  /** Its lines, without the indentation of the fence. */
  text: string;
  /** The line before the fence, if it is not empty. */
  before: string;
}

/** Lists the fenced blocks of a Markdown text, in their order. */
export function listCodeBlocks(markdown: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  const lines = markdown.split('\n');
  let heading = '';
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? '';
    const [, title] = /^#+ (.+)$/.exec(line) ?? [];
    if (title !== undefined) heading = title.replaceAll('`', '');
    const [, indentation = '', language] = /^( *)```(\S*)/.exec(line) ?? [];
    if (language === undefined) continue;
    const end = lines.indexOf(`${indentation}\`\`\``, index + 1);
    if (end < 0) throw new Error(`The block at line ${index + 1} has no end.`);
    const text = lines
      .slice(index + 1, end)
      .map((one) => one.slice(indentation.length))
      .join('\n');
    const nth = blocks.filter((block) => block.heading === heading).length;
    blocks.push({ heading, nth, language, text, before: lines[index - 1] ?? '' });
    index = end;
  }
  return blocks;
}

/**
 * Reads a block of code from a document, so that a test runs what the document shows.
 *
 * @param page path of the document in the repository
 * @param heading the nearest heading above the block
 * @param nth position among the blocks under this heading, from 0
 */
export function codeBlock(page: string, heading: string, nth = 0): string {
  const blocks = listCodeBlocks(
    readFileSync(join(import.meta.dirname, '../../..', page), 'utf8'),
  ).filter((block) => block.heading === heading);
  const found = blocks[nth];
  if (found === undefined)
    throw new Error(`${page} has ${blocks.length} blocks under "${heading}".`);
  return found.text;
}
