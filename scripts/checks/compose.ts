import { readYaml } from './files.ts';

/** A service of docker-compose.yml: the fields that the checks read. */
export interface ComposeService {
  image?: string;
  build?: { args?: Record<string, string> };
  command?: string[];
  environment?: Record<string, string>;
  networks: string[];
  profiles?: string[];
  secrets?: string[];
  volumes?: string[];
  stop_grace_period?: string;
  ulimits?: { nofile: { soft: string } };
}

export interface Compose {
  services: Record<string, ComposeService>;
  volumes: Record<string, object>;
  secrets: Record<string, { file: string }>;
}

export function readCompose(root: string): Compose {
  return readYaml(root, 'docker-compose.yml');
}
