import { Group, Text } from '@mantine/core';
import { CopyButton } from './copy-button.tsx';

const SHOWN_CHARACTERS = 12;

/** Shortens an id in its middle; ids of one time differ at their end. */
export function shortenId(id: string, characters = SHOWN_CHARACTERS): string {
  return id.length <= characters + 1 ? id : `${id.slice(0, 6)}…${id.slice(-(characters - 6))}`;
}

/** Shows an id whole, with a button that copies it. */
export function Id({ id, label = 'Copy the id' }: { id: string; label?: string }) {
  return (
    <Group gap={2} wrap="nowrap" miw={0}>
      <Text span className="mono wrap-anywhere">
        {id}
      </Text>
      <CopyButton text={id} label={label} />
    </Group>
  );
}
