// The page Templates: a card for each template, and the form of the chosen one.
import { Badge } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { getTemplate, listTemplates, type TemplateRow } from '../../api/templates'
import { Empty, Page } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { chooseWords } from './fields'
import { TemplateForm } from './TemplateForm'
import './templates.css'

export function TemplatesPage() {
  const { t } = useTranslation('templates')
  const chosen = useSearch({ strict: false }) as { template?: string; tenant?: string }
  const rows = useQuery({ queryKey: ['templates'], queryFn: listTemplates })
  const tenant = chosen.tenant ?? null
  const template = useQuery({
    queryKey: ['template', chosen.template, tenant],
    queryFn: () => getTemplate(chosen.template ?? '', tenant),
    enabled: Boolean(chosen.template),
    retry: false,
  })
  const command = chosen.template ? `gpupool template show ${chosen.template}` : 'gpupool template list'
  return (
    <Page title={t('menu')} sentence={t('sentence')} command={command}>
      {rows.isError && <Refusal error={rows.error} />}
      {rows.data?.length === 0 && <Empty>{t('none')}</Empty>}
      <ul className="template-cards">
        {(rows.data ?? []).map((row) => (
          <li key={`${row.tenant ?? ''}/${row.name}`}>
            <TemplateCard row={row} isChosen={row.name === chosen.template && (row.tenant ?? null) === tenant} />
          </li>
        ))}
      </ul>
      {template.isError && <Refusal error={template.error} />}
      {template.data && (
        <TemplateForm
          key={`${template.data.tenant ?? ''}/${template.data.name}@${template.data.version}`}
          template={template.data}
        />
      )}
    </Page>
  )
}

function TemplateCard({ row, isChosen }: { row: TemplateRow; isChosen: boolean }) {
  const { t, i18n } = useTranslation('templates')
  return (
    <Link
      to="/templates"
      search={{ template: row.name, ...(row.tenant ? { tenant: row.tenant } : {}) } as never}
      className="template-card"
      aria-current={isChosen ? 'true' : undefined}
    >
      <b>{row.name}</b>
      {row.tenant && <Badge size="xs">{row.tenant}</Badge>}
      {!row.enabled && <Badge size="xs">{t('disabled')}</Badge>}
      <span className="small sub">{chooseWords(row.summary, i18n.language)}</span>
    </Link>
  )
}
