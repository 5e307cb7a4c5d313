import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startServer, type TestServer } from '../../packages/presence/test/start-server.ts';
import {
  type KeyPair,
  makeAuthority,
  makeServerCertificate,
} from '../../packages/runtime/src/certificates.ts';
import { createTemporaryFolder } from './temporary-folder.ts';

const HOST = '127.0.0.1';
const DAYS = 2;

/** An authority of its own, in PEM, and the servers that have certificates of it and accept TLS alone. */
export interface TlsServers {
  ca: string;
  startRedis(): Promise<TestServer & { url: string }>;
  startMongod(): Promise<TestServer>;
}

/** Makes an authority and a certificate for this machine's servers. */
export async function createTlsServers(): Promise<TlsServers> {
  const authority = await makeAuthority(DAYS);
  const { certificate, key }: KeyPair = await makeServerCertificate(authority, [HOST], DAYS);
  const folder = createTemporaryFolder();
  const write = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const ca = write('ca.pem', authority.certificate);
  const certificateFile = write('server.pem', certificate);
  const keyFile = write('server.key', key);
  const both = write('both.pem', `${certificate}${key}`);
  return {
    ca: authority.certificate,
    async startRedis() {
      const server = await startServer(
        process.env.CARILLON_REDIS_SERVER ?? 'redis-server',
        ({ port, folder: dir }) => [
          ...['--port', '0', '--tls-port', `${port}`, '--bind', HOST, '--dir', dir, '--save', ''],
          ...['--tls-cert-file', certificateFile, '--tls-key-file', keyFile],
          ...['--tls-ca-cert-file', ca, '--tls-auth-clients', 'no'],
        ],
      );
      return { ...server, url: `rediss://${HOST}:${server.port}` };
    },
    startMongod: () =>
      startServer(process.env.CARILLON_MONGOD ?? 'mongod', ({ port, folder: data }) => [
        ...['--port', `${port}`, '--bind_ip', HOST, '--dbpath', data, '--quiet'],
        ...['--wiredTigerCacheSizeGB', '0.25', '--tlsMode', 'requireTLS'],
        ...['--tlsCertificateKeyFile', both, '--tlsCAFile', ca],
        '--tlsAllowConnectionsWithoutCertificates',
      ]),
  };
}
