import { lookup } from 'node:dns';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { rootCertificates } from 'node:tls';
import { NOT_ALLOWED } from '@carillon/core/public-address';
import { parseRetryAfterMs } from '@carillon/core/retry-after';
import {
  type Http1Response,
  KEEP_ALIVE,
  MAX_HEADER_BYTES,
  waitForResponse,
} from '@carillon/runtime/http1';
import { http } from '@carillon/runtime/node-http';
import { type AllowedHosts, createReceiverLookup, isAddressAllowed } from './allowed-hosts.ts';

/** Deadline of a request, in milliseconds. */
export const DEADLINE_MS = 10_000;
/**
 * Maximum bytes of a response body that are read, so that the connection can be used again. The status alone
 * decides; the first ones are shown to operators.
 */
const MAX_BODY_BYTES = 4_096;
/**
 * Maximum connections to a host: more than the requests in flight to an address. Test events are sent beside them, and
 * a request must not wait here.
 */
const MAX_CONNECTIONS_PER_HOST = 200;

/** Codes of the errors of a name that can't be resolved: it does not exist, or the server of its zone does not respond. */
const UNRESOLVED = ['ENOTFOUND', 'ENODATA', 'EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA'];

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
  /**
   * Posts a body. Never rejects; settles within the deadline. Redirects are not followed.
   *
   * @param onAnswer gets the first bytes of the response's body when it has ended or is cut, which may be after the status
   */
  post(
    address: string,
    headers: Record<string, string>,
    body: string,
    onAnswer?: (start: Buffer) => void,
  ): Promise<ReceiverResponse>;
  close(): void;
}

/** Creates a client with keep-alive connections. */
export function createWebhookClient({
  hosts,
  ca,
  deadlineMs = DEADLINE_MS,
  dnsLookup = lookup as LookupFunction,
}: WebhookClientOptions): WebhookClient {
  const agentOptions = { ...KEEP_ALIVE, maxSockets: MAX_CONNECTIONS_PER_HOST };
  const httpAgent = new http.Agent(agentOptions);
  const httpsAgent = new HttpsAgent({
    ...agentOptions,
    ...(ca !== undefined && { ca: [...rootCertificates, ca] }),
  });
  const httpLookup = createReceiverLookup(dnsLookup, false, hosts);
  const httpsLookup = createReceiverLookup(dnsLookup, true, hosts);

  return {
    async post(address, headers, body, onAnswer) {
      const url = parseReceiver(address, hosts);
      if (url === undefined) return { error: NOT_ALLOWED };
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
      request.end(body);
      const limits = { deadlineMs, maxBodyBytes: MAX_BODY_BYTES };
      const received = await waitForResponse(request, limits);
      if ('body' in received && onAnswer !== undefined) void received.body.then(onAnswer);
      const response = toReceiverResponse(received);
      return hosts.names.has(url.hostname) ? response : hideUnresolved(response);
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

/** Has a name that can't be resolved look like one in the operator's network: tenants must not learn which of them exist. */
function hideUnresolved(response: ReceiverResponse): ReceiverResponse {
  const isUnresolved = 'error' in response && UNRESOLVED.includes(response.error);
  return isUnresolved ? { error: NOT_ALLOWED } : response;
}

function toReceiverResponse(response: Http1Response): ReceiverResponse {
  if ('error' in response) return { error: response.error };
  const retryAfterMs = parseRetryAfterMs(response.headers['retry-after'], Date.now());
  return { status: response.status, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
