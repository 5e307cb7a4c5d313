import { Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';

/** Says what belongs in a place that is empty, and the next step. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack gap={6} align="flex-start" py="lg" px="md">
      <Text fw={600}>{title}</Text>
      {children !== undefined && (
        <Text c="dimmed" fz="sm" maw={560} component="div">
          {children}
        </Text>
      )}
    </Stack>
  );
}
