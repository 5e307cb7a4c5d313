import { lookup } from 'node:dns';
import type { IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { rootCertificates } from 'node:tls';
import { http } from '@carillon/runtime/node-http';
import { parseRetryAfterMs } from '../channels/retry-after.ts';
import { createBodyPrefix } from '../channels/web-push/response.ts';
import {
  ADDRESS_ERRORS,
  type AllowedHosts,
  createGuardedLookup,
  isAddressAllowed,
} from './allowed-hosts.ts';

export const DEADLINE_MS = 10_000;
const MAX_HEADER_BYTES = 16_384;
const IDLE_TIMEOUT_MS = 30_000;
/** More than the requests in flight to an address: test events are sent beside them, and a request must not wait here. */
const MAX_CONNECTIONS_PER_HOST = 64;

/** Response of a receiver, or the code of the error. */
export type ReceiverResponse = { status: number; retryAfterMs?: number } | { error: string };

/** Settings of the client. */
export interface WebhookClientOptions {
  hosts: AllowedHosts;
  /** Certificates of authorities that are trusted besides the public ones, PEM. */
  ca?: string | undefined;
  deadlineMs?: number;
  /** Replaces the system's name resolution. */
  dnsLookup?: LookupFunction;
}

/** HTTP client for receivers, which aren't trusted: requests are limited in target, time and response size. */
export interface WebhookClient {
  /** Posts a body. Never rejects; settles within the deadline. Redirects are not followed. */
  post(address: string, headers: Record<string, string>, body: string): Promise<ReceiverResponse>;
  close(): void;
}

/** Creates a client with keep-alive connections. */
export function createWebhookClient({
  hosts,
  ca,
  deadlineMs = DEADLINE_MS,
  dnsLookup = lookup as LookupFunction,
}: WebhookClientOptions): WebhookClient {
  const agentOptions = {
    keepAlive: true,
    maxSockets: MAX_CONNECTIONS_PER_HOST,
    timeout: IDLE_TIMEOUT_MS,
  };
  const httpAgent = new http.Agent(agentOptions);
  const httpsAgent = new HttpsAgent({
    ...agentOptions,
    ...(ca !== undefined && { ca: [...rootCertificates, ca] }),
  });
  const httpLookup = createGuardedLookup(dnsLookup, false, hosts);
  const httpsLookup = createGuardedLookup(dnsLookup, true, hosts);

  return {
    async post(address, headers, body) {
      const url = parseReceiver(address, hosts);
      if (url === undefined) return { error: ADDRESS_ERRORS.parsed };
      const isHttps = url.protocol === 'https:';
      const options = {
        method: 'POST',
        maxHeaderSize: MAX_HEADER_BYTES,
        lookup: isHttps ? httpsLookup : httpLookup,
        headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      };
      const request = isHttps
        ? httpsRequest(url, { ...options, agent: httpsAgent })
        : http.request(url, { ...options, agent: httpAgent });
      return new Promise((resolve) => {
        let hasResponse = false;
        const timer = setTimeout(() => {
          resolve({ error: 'ETIMEDOUT' });
          request.destroy();
        }, deadlineMs);
        request.on('response', (response) => {
          hasResponse = true;
          // The status decides; a body that drips or never ends is cut.
          resolve(readResponse(response));
          drain(response);
        });
        request.on('error', (error: NodeJS.ErrnoException) => {
          if (!hasResponse) resolve({ error: error.code ?? error.message });
        });
        request.on('close', () => {
          clearTimeout(timer);
          resolve({ error: 'ECONNRESET' });
        });
        request.end(body);
      });
    },
    close() {
      httpAgent.destroy();
      httpsAgent.destroy();
    },
  };
}

/** Parses an address; undefined if nothing may be sent to it. Names are checked when they are resolved. */
function parseReceiver(address: string, hosts: AllowedHosts): URL | undefined {
  const url = URL.parse(address);
  if (url === null || url.username !== '' || url.password !== '') return undefined;
  const isHttps = url.protocol === 'https:';
  if (!isHttps && url.protocol !== 'http:') return undefined;
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname;
  if (isIP(host) !== 0 && !isAddressAllowed(host, isHttps, hosts)) return undefined;
  return url;
}

function readResponse({ statusCode = 0, headers }: IncomingMessage): ReceiverResponse {
  const retryAfterMs = parseRetryAfterMs(headers['retry-after'], Date.now());
  return { status: statusCode, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** Reads a short body, so that the connection can be used again, and cuts a longer one. */
function drain(response: IncomingMessage): void {
  const bodyPrefix = createBodyPrefix();
  response.on('error', () => undefined);
  response.on('data', (chunk: Buffer) => {
    if (!bodyPrefix.append(chunk)) response.destroy();
  });
}
