import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ApiError } from '@carillon/core/api-error';
import { toAddressGroup } from '@carillon/core/client-address';
import { BodyBudget, type IncomingBody } from './body-budget.ts';

/** Default memory for the bodies of all requests. */
const DEFAULT_BUDGET_BYTES = 64 * 1_024 * 1_024;
/** Minimum size of a body's buffer. */
const FIRST_BUFFER_BYTES = 4_096;

/** Account and client address that a body's memory counts for. */
export interface BodyOwner {
  account?: string | undefined;
  /** The client's address. */
  address(): string;
}

/** Reads the body of a request. */
export type ReadBody<R extends IncomingMessage> = (
  request: R,
  maxBytes: number,
  owner: BodyOwner,
) => Promise<string>;

/**
 * Creates the body reader of a process.
 *
 * @param budgetBytes memory for all bodies that are being received
 * @param hasAddressLimits false disables the share per client address
 */
export function createBodyReader({
  budgetBytes = DEFAULT_BUDGET_BYTES,
  hasAddressLimits = true,
}: {
  budgetBytes?: number;
  hasAddressLimits?: boolean;
} = {}): ReadBody<IncomingMessage> {
  const budget = new BodyBudget(budgetBytes);
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

  /**
   * Reads a JSON body as text, at most `maxBytes`.
   *
   * @throws ApiError UNSUPPORTED_MEDIA_TYPE, BODY_TOO_LARGE, REQUEST_TIMEOUT, SERVICE_UNAVAILABLE, INVALID_PARAM
   *   (not UTF-8)
   */
  return async function readBody(request, maxBytes, owner) {
    const type = request.headers['content-type'];
    if (type !== undefined && !/^application\/json\s*(;|$)/i.test(type)) {
      throw new ApiError('UNSUPPORTED_MEDIA_TYPE');
    }
    if (request.headers['content-encoding'] !== undefined) {
      throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The request body must not be compressed.');
    }
    const declaredBytes = Number(request.headers['content-length'] ?? maxBytes);
    if (declaredBytes > maxBytes) throw new ApiError('BODY_TOO_LARGE');
    const bytes =
      readBufferedBody(request) ??
      (await receiveBody(request, declaredBytes, () => listOwnerKeys(owner)));
    try {
      return decoder.decode(bytes);
    } catch {
      // The parser reports the end in this turn; without it the connection would not be kept.
      if (!request.complete) await nextTurn();
      throw unreadableBody();
    }
  };

  function listOwnerKeys({ account, address }: BodyOwner): string[] {
    return [
      ...(account === undefined ? [] : [`account ${account}`]),
      ...(hasAddressLimits ? [`address ${toAddressGroup(address())}`] : []),
    ];
  }

  /** Receives the bytes of a body, at most `maxBytes`. Uses events, because an async iterator is several times slower. */
  function receiveBody(
    request: IncomingMessage,
    maxBytes: number,
    owners: () => readonly string[],
  ): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const bodyBuffer = createBodyBuffer(maxBytes);
      let body: IncomingBody | undefined;
      // An aborted request is not destroyed: its connection still carries the response.
      const finish = (error?: ApiError): void => {
        request
          .off('data', onData)
          .off('end', finish)
          .off('error', onBroken)
          .off('close', onBroken);
        body?.close();
        if (error === undefined) resolve(bodyBuffer.bytes());
        else reject(error);
      };
      const onBroken = (): void => finish(unreadableBody());
      const onData = (chunk: Buffer): void => {
        if (!bodyBuffer.add(chunk)) finish(new ApiError('BODY_TOO_LARGE'));
        // A complete body needs no further memory, so the budget does not pause it.
        else if (bodyBuffer.length() < maxBytes)
          body?.reportProgress(chunk.length, bodyBuffer.heldBytes());
      };
      // The client disconnected while the key was looked up.
      if (request.destroyed) return void onBroken();
      body = budget.open({
        owners,
        pause: () => request.pause(),
        resume: () => request.resume(),
        abort: finish,
      });
      request.on('data', onData).on('end', finish).on('error', onBroken).on('close', onBroken);
    });
  }
}

/**
 * Returns a body of a declared length that has arrived completely, as most have by the end of the key's lookup; else
 * undefined. Events would cost more than the rest of reading a short body.
 */
function readBufferedBody(request: IncomingMessage): Buffer | undefined {
  const { readableLength } = request;
  if (readableLength === 0 || request.destroyed) return undefined;
  if (Number(request.headers['content-length']) !== readableLength) return undefined;
  const bytes = request.read() as Buffer;
  // The parser reports the end of the body after its last byte; a stream without a reader would keep it.
  request.resume();
  return bytes;
}

/**
 * Collects chunks in one growing buffer: chunks of a single byte each, kept as they are, would take a hundred times
 * their size. A body of one chunk is never copied.
 */
function createBodyBuffer(maxBytes: number) {
  let buffer: Buffer = Buffer.alloc(0);
  let length = 0;

  function append(chunk: Buffer): void {
    if (length + chunk.length > buffer.length) {
      const needed = Math.max(length + chunk.length, 2 * buffer.length, FIRST_BUFFER_BYTES);
      const larger = Buffer.allocUnsafeSlow(Math.min(maxBytes, needed));
      buffer.copy(larger, 0, 0, length);
      buffer = larger;
    }
    chunk.copy(buffer, length);
  }

  return {
    /** Appends a chunk; false if the body would exceed `maxBytes`. */
    add(chunk: Buffer): boolean {
      if (length + chunk.length > maxBytes) return false;
      if (length === 0) buffer = chunk;
      else append(chunk);
      length += chunk.length;
      return true;
    },
    length: () => length,
    /** Returns the bytes of memory that the buffer takes. */
    heldBytes: () => buffer.length,
    bytes: () => buffer.subarray(0, length),
  };
}

function unreadableBody(): ApiError {
  return new ApiError('INVALID_PARAM', 'The request body could not be read as UTF-8.');
}
