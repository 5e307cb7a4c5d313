import { entryText, type Journal } from '../record/journal.ts';
import { type Called, type Route, readNumber, sendJson } from './route.ts';
import { filterOf, watch } from './watch.ts';

const MOST_ENTRIES = 100_000;

/** What arrived, and how much. */
export function recordRoutes(journal: Journal): Route[] {
  return [
    { method: 'GET', path: /^\/received$/, handle: (called) => received(journal, called) },
    { method: 'GET', path: /^\/watch$/, handle: (called) => watch(journal, called) },
    { method: 'GET', path: /^\/counts$/, handle: () => journal.counts() },
    {
      method: 'DELETE',
      path: /^\/received$/,
      handle: () => {
        journal.clear();
        return {};
      },
    },
  ];
}

function received(journal: Journal, { query, response }: Called): void {
  const limit = readNumber(query, 'limit', MOST_ENTRIES);
  const found = journal.read(filterOf(query), readNumber(query, 'after', 0), limit);
  const entries = found.map(entryText).join(',');
  sendJson(response, 200, `{"received":[${entries}],"last":${journal.last()}}`);
}
