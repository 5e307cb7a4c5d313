import { Box, Group, Paper, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

interface PanelProps {
  title: string;
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** Shows a part of a page with its heading. */
export function Panel({ title, note, actions, children }: PanelProps) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title} miw={0}>
      <Group justify="space-between" align="baseline" gap="xs" mb="sm">
        <Group gap="sm" align="baseline">
          <Title order={2} fz={15}>
            {title}
          </Title>
          {note !== undefined && (
            <Text c="dimmed" fz="xs" component="div">
              {note}
            </Text>
          )}
        </Group>
        {actions}
      </Group>
      <Box>{children}</Box>
    </Paper>
  );
}
