import { type RequestLog, serializeEntry } from '../request-log/request-log.ts';
import { parseFilter, streamEvents } from './event-stream.ts';
import { parseNumberParameter, type RequestContext, type Route, sendJson } from './route.ts';

/** Maximum entries of a response. */
const MAX_ENTRIES = 100_000;

/** Creates the routes that read and clear the request log. */
export function createRequestLogRoutes(requestLog: RequestLog): Route[] {
  return [
    { method: 'GET', path: /^\/received$/, handle: (context) => sendReceived(requestLog, context) },
    { method: 'GET', path: /^\/watch$/, handle: (context) => streamEvents(requestLog, context) },
    { method: 'GET', path: /^\/counts$/, handle: () => requestLog.counts() },
    {
      method: 'DELETE',
      path: /^\/received$/,
      handle: () => {
        requestLog.clear();
        return {};
      },
    },
  ];
}

function sendReceived(requestLog: RequestLog, { query, response }: RequestContext): void {
  const limit = parseNumberParameter(query, 'limit', MAX_ENTRIES);
  const found = requestLog.read(parseFilter(query), parseNumberParameter(query, 'after', 0), limit);
  const entries = found.map(serializeEntry).join(',');
  sendJson(response, 200, `{"received":[${entries}],"last":${requestLog.last()}}`);
}
