import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  makeAuthority,
  makeClientCertificate,
  makeServerCertificate,
} from '../../../packages/runtime/src/certificates.ts';

const HOST = '127.0.0.1';
const DAYS = 2;
const USER = 'carillon';
/** With signs that a URL must escape. */
const PASSWORD = 'p@ss/word';

/** TLS, and users with passwords, of all nodes of a set. */
export interface Security {
  user: string;
  password: string;
  /** Certificate of the authority, PEM. */
  ca: string;
  /** Lines of each node's configuration, but for its port. */
  lines: readonly string[];
  /** User and password before the hosts in a URL. */
  credentials: string;
}

/** Creates an authority and the files of the servers. Only the user of {@link Security.user} may do anything. */
export async function createSecurity(parent: string): Promise<Security> {
  const folder = join(parent, 'tls');
  await mkdir(folder);
  const authority = await makeAuthority(DAYS);
  const { certificate, key } = await makeServerCertificate(authority, [HOST], DAYS);
  // The nodes of a cluster require a certificate of each other, even with `tls-auth-clients no`.
  const client = await makeClientCertificate(authority, [{ CN: [USER] }], [], DAYS);
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  return {
    user: USER,
    password: PASSWORD,
    ca: authority.certificate,
    lines: [
      `tls-cert-file ${await write('server.pem', certificate)}`,
      `tls-key-file ${await write('server.key', key)}`,
      `tls-client-cert-file ${await write('client.pem', client.certificate)}`,
      `tls-client-key-file ${await write('client.key', client.key)}`,
      `tls-ca-cert-file ${await write('ca.pem', authority.certificate)}`,
      ...['tls-auth-clients no', 'tls-replication yes'],
      ...['user default off', `user ${USER} on >${PASSWORD} ~* &* +@all`],
    ],
    credentials: `${USER}:${encodeURIComponent(PASSWORD)}@`,
  };
}
