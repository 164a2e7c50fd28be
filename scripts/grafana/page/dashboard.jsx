// One dashboard of Holdfast, drawn with Grafana's own components (@grafana/ui) from answers of a real Prometheus.
// `window.picture` is {model, answers, from_ms, to_ms}: see prometheus.py. Panels: stat, timeseries and table.
import React from 'react';
import { createRoot } from 'react-dom/client';

// As CommonJS: the ES modules of @grafana/ui import CommonJS packages as Node does, which a bundle for a browser cannot.
const {
  applyFieldOverrides,
  createTheme,
  FieldType,
  getDisplayProcessor,
  standardFieldConfigEditorRegistry,

  toDataFrame,
} = require('@grafana/data');
const { BigValue, BigValueColorMode, BigValueGraphMode, GlobalStyles, PanelChrome, Table, ThemeContext, TimeSeries } = require('@grafana/ui');

const CELL_PX = 38; // Grafana's height of a grid cell is 30 px, and 8 px between two cells
const GAP_PX = 8;
const { model, answers, from_ms, to_ms } = window.picture;
const theme = createTheme({ colors: { mode: window.picture.mode } });

function name(labels, legend, expr) {
  if (legend && legend !== '__auto') {
    return legend.replace(/{{\s*(\w+)\s*}}/g, (_, label) => labels[label] ?? '');
  }
  return JSON.stringify(labels) === '{}' ? expr : JSON.stringify(labels);
}

function series(panel) {
  return panel.targets.flatMap((target) =>
    answers[target.expr].map(({ metric, values }) =>
      toDataFrame({
        refId: target.refId,
        fields: [
          { name: 'Time', type: FieldType.time, values: values.map(([at_s]) => at_s * 1000) },
          {
            name: name(metric, target.legendFormat, target.expr),
            type: FieldType.number,
            labels: {},
            values: values.map(([, value]) => Number(value)),
            config: { displayName: name(metric, target.legendFormat, target.expr) },
          },
        ],
      })
    )
  );
}

function rows(panel) {
  const [target] = panel.targets;
  // In Grafana the query is of one moment: a finding that is closed by then has no row.
  const last = (one) => one.values[one.values.length - 1][0] * 1000;
  const answer = answers[target.expr].filter((one) => last(one) > to_ms - 10_000);
  const labels = [...new Set(answer.flatMap(({ metric }) => Object.keys(metric)))];
  // The override that hides columns is of the table's plugin, which @grafana/ui does not have.
  const [hidden] = panel.fieldConfig.overrides;
  return toDataFrame({
    fields: labels
      .filter((label) => !new RegExp(hidden.matcher.options).test(label))
      .map((label) => ({
        name: label,
        type: FieldType.string,
        values: answer.map(({ metric }) => metric[label] ?? ''),
      })),
  });
}

function shown(frames, panel) {
  const defaults = {
    ...panel.fieldConfig.defaults,
    color: { mode: panel.type === 'timeseries' ? 'palette-classic' : 'thresholds' },
    custom: { lineWidth: 1, drawStyle: 'line', showPoints: 'never', ...panel.fieldConfig.defaults.custom },
  };
  const filled = applyFieldOverrides({
    data: frames,
    fieldConfig: { defaults, overrides: [] },
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
    fieldConfigRegistry: standardFieldConfigEditorRegistry,
  });
  let number = 0;
  for (const frame of filled) {
    for (const field of frame.fields) {
      field.config = { ...defaults, ...field.config, custom: { ...defaults.custom, ...field.config.custom } };
      if (field.type === FieldType.number) {
        field.state = { ...field.state, seriesIndex: number++ };
      }
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return filled;
}

function Body({ panel, width, height }) {
  if (panel.type === 'table') {
    const [frame] = shown([rows(panel)], panel);
    return <Table data={frame} width={width} height={height} />;
  }
  const frames = shown(series(panel), panel);
  if (!frames.length) {
    return <div style={{ height, display: 'grid', placeItems: 'center' }}>No data</div>;
  }
  if (panel.type === 'timeseries') {
    return (
      <TimeSeries
        frames={frames}
        timeRange={{ from: { valueOf: () => from_ms }, to: { valueOf: () => to_ms }, raw: { from: 'now-1h', to: 'now' } }}
        timeZone="utc"
        width={width}
        height={height}
        legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] }}
        structureRev={1}
      />
    );
  }
  return (
    <div style={{ display: 'flex', height }}>
      {frames.map((frame, at) => {
        const field = frame.fields[1];
        const value = field.values[field.values.length - 1];
        return (
          <BigValue
            key={at}
            value={{ ...field.display(value), title: frames.length > 1 ? field.config.displayName : undefined }}
            sparkline={{ y: field, x: frame.fields[0] }}
            colorMode={BigValueColorMode.Value}
            graphMode={BigValueGraphMode.Area}
            theme={theme}
            width={width / frames.length}
            height={height}
          />
        );
      })}
    </div>
  );
}

function Dashboard({ width }) {
  const column = width / 24;
  const bottom = Math.max(...model.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <div style={{ padding: 16, width: width + 32, background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
      <h3>{model.title}</h3>
      <div style={{ position: 'relative', width, height: bottom * CELL_PX }}>
        {model.panels.map((panel) => {
          const { x, y, w, h } = panel.gridPos;
          const place = { position: 'absolute', left: x * column, top: y * CELL_PX };
          if (panel.type === 'row') {
            return (
              <h4 key={panel.id} style={{ ...place, lineHeight: '30px' }}>
                {panel.title}
              </h4>
            );
          }
          return (
            <div key={panel.id} style={place}>
              <PanelChrome title={panel.title} width={w * column - GAP_PX} height={h * CELL_PX - GAP_PX}>
                {(innerWidth, innerHeight) => <Body panel={panel} width={innerWidth} height={innerHeight} />}
              </PanelChrome>
            </div>
          );
        })}
      </div>
    </div>
  );
}

createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Dashboard width={window.innerWidth - 32} />
  </ThemeContext.Provider>
);
