import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import tls, { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { startInterval } from '@carillon/core/intervals';
import type { PendingConnection } from './pending-connections.ts';

/** Interval between two checks of the certificate's files. */
const CHECK_INTERVAL_MS = 2_000;

/**
 * Settings with which the first renegotiation is an error. A TLS 1.2 client may renegotiate at any time, which costs
 * the client little and the server much. Node counts renegotiations per time window, for all servers of a process.
 */
const NO_RENEGOTIATION = { CLIENT_RENEG_LIMIT: 0, CLIENT_RENEG_WINDOW: Number.POSITIVE_INFINITY };

/** OpenSSL's code for a record of another protocol. */
const NO_TLS = 'ERR_SSL_WRONG_VERSION_NUMBER';

/** Paths of the server's certificate and private key, PEM. */
export interface TlsFiles {
  certFile: string;
  keyFile: string;
}

/**
 * Accepts TLS connections with the certificate of these files, and reloads the files when they change: new
 * connections get the new certificate, open ones keep theirs. A key that doesn't match its certificate (the files
 * are written one after the other) is read again later.
 *
 * @param on.secured is called when the TLS handshake is complete
 * @param on.handshake is called with false when the first bytes are no TLS
 * @param on.reloaded is called when new files are in use; with an error when they can't be used
 * @throws when the files can't be used at the start
 */
export function createTlsListener(
  files: TlsFiles,
  on: {
    secured(pending: PendingConnection): void;
    handshake(isTls: boolean, address: string): void;
    reloaded(failure?: unknown): void;
  },
) {
  Object.assign(tls, NO_RENEGOTIATION);
  let loaded = readFiles(files);
  let context = createContext(loaded);

  function checkFiles(): void {
    try {
      const current = readFiles(files);
      if (current.cert === loaded.cert && current.key === loaded.key) return;
      // Set even if these files can't be used, so that the failure is reported once.
      loaded = current;
      context = createContext(current);
      on.reloaded();
    } catch (error) {
      on.reloaded(error);
    }
  }

  const stopChecks = startInterval(checkFiles, CHECK_INTERVAL_MS);
  return {
    accept(socket: Socket, pending: PendingConnection): void {
      const secure = new TLSSocket(socket, { isServer: true, secureContext: context });
      pending.transport = secure;
      secure.on('error', ignore);
      // An error after the handshake (renegotiation, a broken record) is reported only here: without a
      // `tls.Server` nothing else closes the connection.
      secure.on('_tlsError', (error: NodeJS.ErrnoException) => {
        on.handshake(error.code !== NO_TLS, pending.address);
        secure.destroy();
      });
      secure.once('secure', () => on.secured(pending));
    },
    stop: stopChecks,
  };
}

function readFiles({ certFile, keyFile }: TlsFiles): { cert: string; key: string } {
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
}

/** Throws when the key doesn't match the certificate. */
function createContext({ cert, key }: { cert: string; key: string }): SecureContext {
  return createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
}

function ignore(): void {}
