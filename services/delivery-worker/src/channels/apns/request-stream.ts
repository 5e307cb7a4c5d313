import type { ClientHttp2Stream } from 'node:http2';

type Listener = (value?: unknown) => void;

/**
 * What node-apn sees of a stream: it writes its request, and is told of a refusal, for it signs a new provider token
 * when the old one has ended. Of all else it hears nothing: the answer is read beside it.
 */
export class RequestStream {
  readonly #stream: ClientHttp2Stream;
  #body = '';
  #onResponse: Listener | undefined;
  #onData: Listener | undefined;
  #onEnd: Listener | undefined;

  constructor(stream: ClientHttp2Stream) {
    this.#stream = stream;
  }

  on(event: string, listener: Listener): this {
    if (event === 'response') this.#onResponse = listener;
    else if (event === 'data') this.#onData = listener;
    else if (event === 'end') this.#onEnd = listener;
    return this;
  }

  setEncoding(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  write(body: string): void {
    this.#body = body;
  }

  end(): void {
    this.#stream.end(this.#body);
  }

  tell(status: number, text: string): void {
    this.#onResponse?.({ ':status': status });
    this.#onData?.(text);
    this.#onEnd?.();
  }
}
