import { readFileSync } from 'node:fs';
import { z } from 'zod';

const LINES = 6;
const LINE_CHARACTERS = 300;
const NOT_TELLING = /^\s*(at |Node\.js v|$)/;

/** One line of mongod's log (its JSON format): severity, message, particulars. */
const mongodLine = z.object({
  s: z.enum(['E', 'F']),
  msg: z.string(),
  attr: z.record(z.string(), z.unknown()).optional(),
});

/** What a log says last, indented, for a message about the process that wrote it. */
export function lastWords(path: string): string {
  const lines = readLines(path);
  const faults = lines.flatMap(mongodFault);
  const telling = faults.length > 0 ? faults : lines.filter((line) => !NOT_TELLING.test(line));
  return telling
    .slice(-LINES)
    .map((line) => `  ${line.slice(0, LINE_CHARACTERS)}`)
    .join('\n');
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function mongodFault(line: string): string[] {
  if (!line.startsWith('{"t":')) return [];
  try {
    const fault = mongodLine.safeParse(JSON.parse(line)).data;
    if (fault === undefined) return [];
    return [`${fault.msg.trim()} ${JSON.stringify(fault.attr ?? {})}`.replaceAll(/\s+/g, ' ')];
  } catch {
    return [];
  }
}
