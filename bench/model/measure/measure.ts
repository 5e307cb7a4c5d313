import { keepPart, type PartName } from '../measured.ts';
import { measureDeliveries } from './deliveries.ts';
import { measureLinks } from './links.ts';
import { measureProviders } from './providers.ts';
import { measureStorage } from './storage.ts';

const PARTS: { [Name in PartName]: () => Promise<void> } = {
  deliveries: async () => keepPart('deliveries', await measureDeliveries()),
  links: async () => keepPart('links', await measureLinks()),
  storage: async () => keepPart('storage', await measureStorage()),
  providers: async () => keepPart('providers', await measureProviders()),
};

/** Measures one part of the costs on this machine and keeps it. @throws Error if there is no such part */
export async function measurePart(name: string): Promise<void> {
  if (!(name in PARTS))
    throw new Error(`no part is called ${name}; there are: ${Object.keys(PARTS).join(', ')}`);
  await PARTS[name as PartName]();
}
