import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import type { Stranger } from './strangers.ts';

const LOOK_EVERY_MS = 2_000;

/** Certificate and key of the server, PEM. */
export interface TlsFiles {
  certFile: string;
  keyFile: string;
}

/** Takes links over TLS with the certificate that is in force. */
export interface TlsDoor {
  enter(socket: Socket, stranger: Stranger): void;
  stop(): void;
}

/**
 * Follows a certificate's files: new links get the new one, those that are open keep theirs. Files that
 * don't fit together (they are written one after the other) are looked at again.
 *
 * @throws when the files can't be used at the start
 */
export function createTlsDoor(
  files: TlsFiles,
  on: {
    secured(stranger: Stranger): void;
    /** New files are in force, or can't be used. */
    reloaded(failure?: unknown): void;
  },
): TlsDoor {
  let text = readFiles(files);
  let context = createContext(text);

  function look(): void {
    try {
      const present = readFiles(files);
      if (present.cert === text.cert && present.key === text.key) return;
      // Also when it can't be used: its failure is told once.
      text = present;
      context = createContext(present);
      on.reloaded();
    } catch (error) {
      on.reloaded(error);
    }
  }

  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    enter(socket, stranger) {
      const secure = new TLSSocket(socket, { isServer: true, secureContext: context });
      stranger.wire = secure;
      secure.on('error', ignore);
      secure.once('secure', () => on.secured(stranger));
    },
    stop: () => clearInterval(timer),
  };
}

function readFiles({ certFile, keyFile }: TlsFiles): { cert: string; key: string } {
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
}

/** Throws when the key isn't the certificate's. */
function createContext({ cert, key }: { cert: string; key: string }): SecureContext {
  return createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
}

function ignore(): void {}
