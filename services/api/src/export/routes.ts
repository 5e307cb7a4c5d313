import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import type { createSlots, Slot } from '@carillon/presence/slots';
import { z } from 'zod';
import { StreamedBody } from '../http/response.ts';
import type { Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { chooseFormat, createWriter, EXPORT_FORMATS, type ExportWriter } from './format.ts';
import { type ExportPages, type ExportStore, INCOMPLETE, openPages } from './read-pages.ts';
import { EXPORT_COLUMNS, type ExportKind } from './rows.ts';

/** Maximum exports that an app has in progress. */
export const EXPORTS_PER_APP = 2;
/** Retry-After when an app has too many exports: by then the slot of a client that was cut off may be free. */
const RETRY_AFTER_SECONDS = 5;

const exportQuery = z.object({
  format: z.enum(EXPORT_FORMATS).optional(),
  after: z.string().optional(),
  push: z.string().optional(),
});

/** Parts of the process that exports use. */
interface ExportContext {
  slots: ReturnType<typeof createSlots>;
  /** Cuts all exports: the process stops. */
  signal: AbortSignal;
  onError(error: unknown): void;
  /** Time after which a client that reads nothing is disconnected and its slot is free; a minute by default. */
  idleMs?: number;
}

/** Registers the routes by which an app exports its data. */
export function exportRoutes(
  routing: Routing,
  store: ExportStore,
  { slots, signal, onError, idleMs }: ExportContext,
): RouteRegistrar {
  const createHandler = (kind: ExportKind) =>
    routing.withApiKey({}, async ({ query, header }, { app }, recheck) => {
      const request = validate(exportQuery, {
        format: query('format'),
        after: query('after'),
        push: query('push'),
      });
      const { after, push, format } = request;
      const writer = createWriter(kind, chooseFormat(format, header('accept')));
      const scope = { app: app._id, after, push };
      const pages = await openPages(store, kind, scope, writer.formatRow);
      const slot = await acquireSlot(slots, app._id);
      const chunks = writePages(pages, writer, { isResumed: after !== undefined, recheck });
      return new StreamedBody(writer.contentType, chunks, {
        ...{ signal, idleMs },
        onEnd(error) {
          slot.release();
          if (error !== undefined && !isClosedByClient(error) && !signal.aborted) onError(error);
        },
      });
    });
  return (router) => {
    for (const kind of Object.keys(EXPORT_COLUMNS) as ExportKind[])
      router.get(`/export/${kind}`, createHandler(kind));
  };
}

async function acquireSlot(slots: ExportContext['slots'], app: string): Promise<Slot> {
  const slot = await slots.acquire(`export:${app}`);
  if (slot !== undefined) return slot;
  const text = `The app has ${EXPORTS_PER_APP} exports in progress. Retry when one of them has ended.`;
  throw new ApiError('RATE_LIMIT_EXCEEDED', text, RETRY_AFTER_SECONDS);
}

/** Writes an export. The key is checked after each piece: a revoked one ends it. */
async function* writePages(
  pages: ExportPages,
  writer: ExportWriter,
  { isResumed, recheck }: { isResumed: boolean; recheck: () => Promise<unknown> },
): AsyncGenerator<string> {
  if (!isResumed && writer.head !== '') yield writer.head;
  try {
    for (;;) {
      const { done, value } = await pages.next();
      if (done === true) {
        yield writer.formatEnd(value !== INCOMPLETE);
        return;
      }
      // An empty chunk would end the stream.
      if (value !== '') yield value;
      await recheck();
    }
  } finally {
    // A client that has left may have done so within a page.
    await pages.return(undefined);
  }
}

function isClosedByClient(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ECONNRESET' || code === 'EPIPE';
}
