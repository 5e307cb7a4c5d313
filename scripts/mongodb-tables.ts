import { SCATTERED_STATEMENTS } from '../packages/store/src/scattered-statements.ts';
import { SHARD_KEYS, UNSHARDED } from '../packages/store/src/shard-keys.ts';
import { UNREPEATED_STATEMENTS } from '../packages/store/src/unrepeated-statements.ts';

const END = '<!-- end -->';

const TABLES = {
  '<!-- statements of many documents, by scripts/write-mongodb-tables.ts -->': renderUnrepeated,
  '<!-- shard keys, by scripts/write-mongodb-tables.ts -->': renderShardKeys,
};

/** Replaces the tables about MongoDB in the text of docs/scaling.md. */
export function updateMongodbTables(page: string): string {
  let updated = page;
  for (const [begin, render] of Object.entries(TABLES)) {
    const from = updated.indexOf(begin);
    const to = updated.indexOf(END, from);
    if (from < 0 || to < 0) throw new Error(`the page has no ${begin}`);
    updated = `${updated.slice(0, from)}${begin}\n\n${render()}\n${updated.slice(to)}`;
  }
  return updated;
}

function renderUnrepeated(): string {
  const rows = Object.entries(UNREPEATED_STATEMENTS).map(
    ([name, { repeatedBy, safeBecause }]) => `| \`${name}\` | ${repeatedBy} | ${safeBecause} |`,
  );
  const head = ['| function of the store | sent again by | safe, because |', '|---|---|---|'];
  return [...head, ...rows, ''].join('\n');
}

function renderShardKeys(): string {
  const keys = Object.entries(SHARD_KEYS).map(
    ([collection, { field, kind, reason }]) =>
      `| \`${collection}\` | \`${field}\`, ${kind} | ${reason} |`,
  );
  const unsharded = Object.entries(UNSHARDED).map(
    ([collection, reason]) => `\`${collection}\` (${reason})`,
  );
  const byRuns = Map.groupBy(Object.entries(SCATTERED_STATEMENTS), ([, { runs }]) => runs);
  const scattered = [...byRuns].map(([runs, functions]) => {
    const names = functions.map(
      ([name, { statements }]) => `\`${name}\` (${listCollections(statements)})`,
    );
    return `| ${runs} | ${names.join(', ')} |`;
  });
  return [
    ...['| collection | shard key | why |', '|---|---|---|', ...keys, ''],
    `Not sharded: ${unsharded.join('; ')}.`,
    ...[
      '',
      '| runs | functions of the store, with what they read or change on all shards |',
      '|---|---|',
    ],
    ...[...scattered, ''],
  ].join('\n');
}

function listCollections(statements: readonly string[]): string {
  return [...new Set(statements.map((shape) => shape.split(' ')[1] ?? ''))].sort().join(', ');
}
