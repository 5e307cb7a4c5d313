import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A span as the receiver got it. */
export interface ReceivedSpan {
  /** `service.name` of the process. */
  service: string;
  name: string;
  traceId: string;
  spanId: string;
  /** Empty for the first span of a trace. */
  parentSpanId: string;
  links: { traceId: string; spanId: string }[];
  attributes: Record<string, string | number>;
  hasFailed: boolean;
  startMs: number;
  endMs: number;
}

/** A receiver of traces over OTLP/HTTP with JSON, as a collector is. */
export interface OtlpReceiver {
  /** Value for OTEL_EXPORTER_OTLP_ENDPOINT. */
  url: string;
  /** All spans so far. */
  spans(): ReceivedSpan[];
  /** The bytes of all requests, headers included. */
  raw(): string;
  /** From now on it reads requests and doesn't respond. */
  hang(): void;
  /** Requests that it read. */
  requestCount(): number;
  /** Responds again, also to the requests that wait. */
  resume(): void;
  close(): Promise<void>;
}

interface OtlpRequest {
  resourceSpans: {
    resource: { attributes: OtlpAttribute[] };
    scopeSpans: { spans: OtlpSpan[] }[];
  }[];
}

interface OtlpAttribute {
  key: string;
  value: { stringValue?: string; intValue?: number | string };
}

interface OtlpSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes?: OtlpAttribute[];
  links?: { traceId: string; spanId: string }[];
  status?: { code?: number };
}

const STATUS_ERROR = 2;

/** Starts a receiver on a free port. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const texts: string[] = [];
  let isHanging = false;
  let waiting: (() => void)[] = [];

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    texts.push(`${request.url} ${request.rawHeaders.join(' ')} ${text}`);
    if (request.url !== '/v1/traces') return void response.writeHead(404).end();
    if (isHanging) await new Promise<void>((resolve) => waiting.push(resolve));
    spans.push(...decode(JSON.parse(text) as OtlpRequest));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  }

  const server = createServer((request, response) => {
    receive(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  function resume(): void {
    isHanging = false;
    for (const respond of waiting) respond();
    waiting = [];
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () => spans,
    raw: () => texts.join('\n'),
    requestCount: () => texts.length,
    hang() {
      isHanging = true;
    },
    resume,
    async close() {
      resume();
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function decode({ resourceSpans }: OtlpRequest): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(decodeAttributes(resource.attributes)['service.name']);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => decodeSpan(service, span)));
  });
}

function decodeSpan(service: string, span: OtlpSpan): ReceivedSpan {
  return {
    service,
    name: span.name,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId ?? '',
    links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId, spanId })),
    attributes: decodeAttributes(span.attributes ?? []),
    hasFailed: span.status?.code === STATUS_ERROR,
    startMs: Number(span.startTimeUnixNano) / 1e6,
    endMs: Number(span.endTimeUnixNano) / 1e6,
  };
}

function decodeAttributes(attributes: readonly OtlpAttribute[]): ReceivedSpan['attributes'] {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]),
  );
}
