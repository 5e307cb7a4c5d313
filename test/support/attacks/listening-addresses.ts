import { readFileSync } from 'node:fs';

const LISTENING = '0A';
const STATE_FIELD = 3;
const ADDRESSES: Record<string, string> = {
  '0100007F': '127.0.0.1',
  '00000000': '0.0.0.0',
  '00000000000000000000000001000000': '::1',
  '00000000000000000000000000000000': '::',
};

/** Lists the addresses of this machine on which something listens at a port. Reads /proc, so Linux only. */
export function listListeningAddresses(port: number): string[] {
  const found = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => listAddresses(file, port));
  return [...new Set(found)];
}

/** proc(5): addresses and ports are hexadecimal, addresses in the byte order of the machine. */
function listAddresses(file: string, port: number): string[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(1);
  return lines.flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const [hexAddress = '', hexPort = ''] = (fields[1] ?? '').split(':');
    if (fields[STATE_FIELD] !== LISTENING || Number.parseInt(hexPort, 16) !== port) return [];
    return [ADDRESSES[hexAddress] ?? hexAddress];
  });
}
